"""Configuration of the documentation site, which ``make docs`` builds without a network."""

import os
import warnings

import maxnorm

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the examples start processes; see docs/scaling.md

project = "maxnorm"
author = "The maxnorm developers"
copyright = "2026, the maxnorm developers"
release = maxnorm.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/README*", "**/GALLERY_HEADER.rst", "gallery/sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "literal"

# -- pages in Markdown --------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# -- reference ----------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings, in words
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False

# -- gallery ------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "doc_module": ("maxnorm",),
    "reference_url": {"maxnorm": None},
    "backreferences_dir": "gallery/backreferences",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "copyfile_regex": "",
    "min_reported_time": 0,
    "plot_gallery": True,
}
suppress_warnings = ["config.cache"]  # the settings of the gallery contain objects that cannot be pickled
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# -- appearance ---------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "maxnorm"
html_static_path = ["_static"]
html_css_files = ["maxnorm.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {"text": "maxnorm"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "navigation_with_keys": False,
}
html_sidebars = {"index": [], "start": []}
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the system of the reader has it

# Addresses outside the site are checked only where there is a network: make docs-links.
linkcheck_timeout = 20


def skip_inherited(app, what, name, member, skip, options):
    """Leave out the members of a class that scikit-learn or Python defines and documents."""
    function = member.fget if isinstance(member, property) else member
    module = getattr(function, "__module__", None) or ""
    return skip or (what == "class" and callable(function) and not module.startswith("maxnorm"))


def setup(app):
    """Register the choice of members."""
    app.connect("autodoc-skip-member", skip_inherited)
