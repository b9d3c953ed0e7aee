"""The living page: trained models inside one HTML file that translates in the browser, offline.

    rnnsearch-living checkpoint_best.pt --data data-bin --out living.html

``living_page`` puts the file together, from the parameters, the rules that turn text into tokens,
and the scripts beside this module. With ``--training`` the models are those of one training
(``models.find``), and a slider chooses one. The scripts run in a worker that the page makes from
its own text, and in Node:

    matrix_product.js   W x for several vectors at once; its inner loop is matrix_product.wat
    weights.js          parameters as the page stores them
    model.js            the paper's equations, as in ``paper.equations`` and ``network``
    search.js           beam search, as in ``decoding.search``; forced alignment
    marks.js            tokens as people see them; the page reads it, too
    text.js             from sentences to tokens and back, as in ``text.plain_text``
    engine.js           what the page asks, and the answers, as ``load()`` gives them

What a reader sees and touches is in interface.js, model_view.js, beam_tree.js and glass.js, with
living.css and living.html; the heatmap is that of the alignment page (``figures``).
"""
