"""Rows of models with a dot for every part."""

import re

from mphil.pages.score_charts import ROW, part_chart


def test_a_dot_for_every_score_and_a_row_for_every_model():
    scores = {"mphil+": [0.8, 0.7], "a <b> & c": [0.9, None]}
    drawn = str(part_chart(scores, ["ID test", "OOD test"], title="Scores", unit="ROC-AUC"))
    legend, dots = 2, 3
    assert drawn.count("<circle") == legend + dots
    assert "a &lt;b&gt; &amp; c, ID test: 0.90" in drawn
    assert "OOD test: None" not in drawn
    heights = {float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)}
    assert len(heights) == 1 + len(scores)
    assert max(heights) - sorted(heights)[-2] == ROW


def test_nothing_to_show():
    assert "<circle" in str(part_chart({"erm": [None, None]}, ["ID test", "OOD test"], title="Scores", unit="RMSE"))
