"""Superset's settings for the test: metadata in a folder of its own, no browser to be protected."""

import os

SECRET_KEY = "guards nothing but a temporary folder"
SQLALCHEMY_DATABASE_URI = "sqlite:///" + os.path.join(os.environ["SUPERSET_HOME"], "superset.db")
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
