"""Films: reading frames from files, folders of images, cameras and streams, and writing them."""

from maxnorm.video.reading import Film, open_film
from maxnorm.video.writing import FilmWriter

__all__ = ["Film", "FilmWriter", "open_film"]
