"""The documentation site: `make docs` builds it offline into build/docs, and every warning is an error."""

import importlib.metadata

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "mphil"
author = "the authors of mphil"
project_copyright = "the authors of mphil, MIT licence"
release = importlib.metadata.version("mphil")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["notebooks"]

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4
smartquotes = False  # it would make dashes of the hyphens of options, which are typed as they stand

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

html_theme = "furo"
html_title = f"mphil {release}"
html_copy_source = False
html_show_search_summary = False  # summaries would be fetched, which browsers refuse to pages on the disk
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"


def inline_formula(translator: HTML5Translator, node: nodes.math) -> None:
    write_formula(translator, node, as_block=False)


def displayed_formula(translator: HTML5Translator, node: nodes.math_block) -> None:
    write_formula(translator, node, as_block=True)


def write_formula(translator: HTML5Translator, node: nodes.Element, *, as_block: bool) -> None:
    """Formulas as MathML, which browsers show without a script from elsewhere."""
    tree = latex2mathml.tex2mathml(node.astext(), as_block=as_block)
    translator.body.append(tree if isinstance(tree, str) else "".join(tree))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
