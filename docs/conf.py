"""How Sphinx builds the site: `make site`."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "tools")]

import tppkit  # noqa: E402
from public_names import public_names  # noqa: E402

# autodoc writes into `__annotations__` of pydantic's classes, after which a module with models cannot be imported.
for names in public_names().values():
    for name in names:
        importlib.import_module(name.module)

project = "tppkit"
author = "the tppkit authors"
version = release = tppkit.__version__
language = "en"
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design", "tppkit_docs",
]  # fmt: skip
root_doc = "index"
exclude_patterns = ["README.md"]
templates_path = ["_templates"]
add_module_names = False
python_maximum_signature_line_length = 80
smartquotes = False  # of `--json` it makes a dash

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence", "html_image"]

autodoc_default_options = {
    "members": True,
    "exclude-members": "model_config",
    "inherited-members": "BaseModel,WireModel,StrEnum,IntEnum,Enum,tuple,str,int,BaseException,Exception,dict,Generic,Auth",
}
autodoc_preserve_defaults = True  # as written, without addresses in memory
autodoc_typehints_format = "short"
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"tppkit {release}"
html_sidebars = {
    "**": [
        *(f"sidebar/{part}.html" for part in ("brand", "search", "scroll-start", "navigation", "scroll-end")), "versions.html",
    ]
}  # fmt: skip
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(HERE / "scorer.js")
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
