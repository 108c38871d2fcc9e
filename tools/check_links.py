"""Check that every link of a site leads to a file, and to a place on the page that exists.

``python tools/check_links.py FOLDER`` reads all HTML pages in a folder. Addresses of other sites are not
requested, but pictures, scripts and style sheets must not come from them: the site has to work offline.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_LOADED = {"canonical", "search", "index", "next", "prev", "author", "license"}  # relations of <link>


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []  # what a reader may follow
        self.loaded: list[str] = []  # what a browser requests by itself
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the anchor and the link of an element."""
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a" and (target := attributes.get("href")):
            self.links.append(target)
        target = attributes.get(LOADED.get(tag, ""))
        if target and attributes.get("rel") not in NOT_LOADED:
            self.loaded.append(target)


def errors(folder: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere and for each thing that is loaded from elsewhere."""
    pages = {
        path.resolve(): Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts
    }
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        for target in page.loaded:
            if urlsplit(target).netloc:
                yield f"{name}: loads {target} from another site"
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{name}: {target} does not exist"
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{name}: {target} has no such place"


if __name__ == "__main__":
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        sys.exit(f"{site} has no index.html; build the site with make docs")
    found = sorted(set(errors(site)))
    if found:
        sys.exit("\n".join([*found, f"{len(found)} links are wrong"]))
