"""
Faces with shadows
==================

You have many photographs of one face in changing light, and shadows or a hand cover parts of it. What does
the face look like in the light of each photograph, without what covers it?
"""

# %%
# The photographs
# ---------------
# We take the face of the astronaut who comes with scikit-image, and light it in 200 ways. Light varies
# smoothly over the face. Then a hard shadow and a bar cover a part of every photograph, so that none of
# them is complete.

import matplotlib.pyplot as plt
import numpy as np
from skimage.color import rgb2gray
from skimage.data import astronaut, lfw_subset
from skimage.transform import resize
from sklearn.decomposition import PCA

from maxnorm import MaxNormDecomposition, plot

face = resize(rgb2gray(astronaut())[20:200, 145:295], (48, 40), anti_aliasing=True)
height, width = face.shape
y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]

rng = np.random.default_rng(0)
n = 200
to_the_right, from_above, frontal = rng.uniform(-0.5, 0.5, (3, n, 1, 1))
light = 0.7 + to_the_right * x + from_above * y + frontal * (0.5 - x**2 - y**2) * 0.5
clean = face * light

photographs = clean + rng.normal(0.0, 0.01, clean.shape)
covered = np.zeros(clean.shape, dtype=bool)
for i in range(n):
    angle, place = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.55, 1.1)
    shadow = np.cos(angle) * x + np.sin(angle) * y > place
    photographs[i][shadow] *= 0.15
    top, left = rng.integers(0, height - 8), rng.integers(0, width - 20)
    bar = np.zeros(face.shape, dtype=bool)
    bar[top : top + 8, left : left + 20] = True
    photographs[i][bar] = rng.choice([0.05, 0.9])
    covered[i] = shadow | bar
print(f"{covered.mean():.0%} of the pixels are covered")

# %%
# Remove what covers the face
# ---------------------------
# Arrays of images are accepted as they are: each image is a sample, and the results have its shape. All
# pixels have the same unit, so that ``scale=None`` is right. Light has three parameters here, so that there
# are three components.

model = MaxNormDecomposition(n_components=3, scale=None, random_state=0).fit(photographs)
parts = model.decompose(photographs)

flat = photographs.reshape(n, -1)
pca = PCA(3).fit(flat)
by_pca = pca.inverse_transform(pca.transform(flat)).reshape(photographs.shape)
by_median = np.broadcast_to(np.median(photographs, axis=0), photographs.shape)


def errors(images):
    """Return the root mean square errors of covered and of uncovered pixels."""
    squares = (images - clean) ** 2
    return np.sqrt(squares[covered].mean()), np.sqrt(squares[~covered].mean())


results = {"photographs": photographs, "median": by_median, "PCA": by_pca, "robust": parts.low_rank}
for name, images in results.items():
    print("{}: error {:.3f} where covered, {:.3f} elsewhere".format(name, *errors(images)))

# %%
# Before and after
# ----------------
# :func:`maxnorm.plot.before_after` draws photographs, the light of the photograph on a whole face, and what
# was taken away.

chosen = [3, 12, 25]
display = plot.before_after(model, photographs, sample=chosen)
plt.show()

# %%
# PCA smears the covers of all photographs over each of them.

fig, axes = plt.subplots(3, 3, figsize=(6.2, 7.6), layout="constrained")
rows = {"PCA, 3 components": by_pca, "robust": parts.low_rank, "truth": clean}
for line, (title, images) in zip(axes, rows.items(), strict=True):
    for axis, i in zip(line, chosen, strict=True):
        axis.imshow(images[i], cmap="gray", vmin=0.0, vmax=1.0)
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(title)
plt.show()

# %%
# The components are images, too: each is a way in which the light changes. The model remembers the shape of
# the photographs that it was fitted on.

display = plot.components(model)
plt.show()

# %%
# Where it does not work
# ----------------------
# The rank matters here, because covers are connected areas and not single pixels: spare components learn
# them.

spare = MaxNormDecomposition(n_components=5, scale=None, random_state=0).fit(photographs)
print(f"five components: error {errors(spare.decompose(photographs).low_rank)[0]:.3f} where covered")

# %%
# Photographs of *different* persons share much less. Here are a hundred of them, a tenth of the pixels of
# each under a bar: ten components cannot tell a bar from what is peculiar to a face.

persons = lfw_subset()[:100]
barred, bars = persons.copy(), np.zeros(persons.shape, dtype=bool)
for i in range(len(persons)):
    top, left = rng.integers(0, 20), rng.integers(0, 12)
    bars[i, top : top + 5, left : left + 13] = True
barred[bars] = 0.0
restored = MaxNormDecomposition(n_components=10, random_state=0).fit(barred).decompose(barred).low_rank
for name, images in (("median face", np.median(barred, axis=0)), ("robust", restored)):
    print(f"{name}: error {np.sqrt(np.mean((images - persons)[bars] ** 2)):.2f} where covered")

# %%
# With your own images, make sure that they show the same thing from the same place, begin with few
# components, and pass them as an array of shape (images, height, width). Films are the task of
# :class:`maxnorm.VideoBackground`.
