"""Files in, tables and figures out: `python -m fairseq_rnnsearch.evaluation COMMAND`.

    report                                the paper's evaluation in report.md and report.html
    bleu, training, lengths,              its parts: Tables 1 and 2, Figures 2 and 3, Table 3
    alignments, examples
    aer, symmetrise                       hard alignments against gold links
    dictionary, replace-unk, no-unk       unknown words

A command is in the file of its idea: `bleu_table`, `training_table`, `lengths` and `examples` make
the tables, and `report` puts all of them into its templates, beside the values of `paper`.
`alignment_error_rate` and `symmetrisation` work on `links`, and `unknown_words` on texts and links.

Below them, `texts` reads sentences, `scores` scores them, `training_log` reads logs, `tables`
writes Markdown, `inline_svg` puts figures into a page, and `command_line` has what all parsers
share.
"""
