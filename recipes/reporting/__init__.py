"""The paper's evaluation: ``python recipes/reporting COMMAND``.

    report                                the paper's evaluation in report.md
    bleu, training, lengths, examples     its parts: Tables 1 and 2, Figure 2, Table 3

`bleu_table`, `training_table`, `lengths` and `examples` make the tables, and `report` puts all of
them together, beside the values of `paper`. Below them, `options` has what their command lines
share, `texts` reads sentences, `scores` scores them, `training_log` reads logs, `tables` writes
Markdown and `length_curves` draws Figure 2.
"""
