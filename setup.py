"""Maps compat_matrix/ into the package; pyproject.toml can search for packages or map one."""

from setuptools import find_namespace_packages, setup

setup(packages=[*find_namespace_packages(include=["envguard*"]), "envguard.compat_matrix"])
