"""pgAdmin 4 in a browser without a window: its tree, its query tool, its row limit. `$DPPROXY_PICTURE` names where a picture goes."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib.metadata import version as installed
from pathlib import Path

import pgadmin4
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from checks import environment, run, version

COUNT = "SELECT region, count(*) > 200 AS enough FROM people GROUP BY region ORDER BY region;"
host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(installed("pgadmin4"))
home = tempfile.TemporaryDirectory(prefix="dpproxy-pgadmin-")
folder, package, key = Path(home.name), Path(next(iter(pgadmin4.__path__))), secrets.token_hex(8)
(folder / "passwords").touch(mode=0o600)
(folder / "passwords").write_text(f"{host}:{port}:*:{user}:{password}\n")
server = {"Name": "dpproxy", "Group": "Servers", "Host": host, "Port": int(port), "MaintenanceDB": database, "Username": user}
server["ConnectionParameters"] = {"sslmode": "prefer", "passfile": str(folder / "passwords")}
(folder / "servers.json").write_text(json.dumps({"Servers": {"1": server}}))
with socket.create_server(("127.0.0.1", 0)) as free:
    own = free.getsockname()[1]
settings = {**os.environ, "HOME": home.name, "PGADMIN_SERVER_MODE": "OFF", "PGADMIN_INT_PORT": str(own), "PGADMIN_INT_KEY": key}
for name in [name for name in settings if name.startswith("PG") and not name.startswith("PGADMIN")]:
    del settings[name]
DESKTOP = """
import builtins, runpy, sys
sys.path[0], builtins.SERVER_MODE, program = ".", False, sys.argv.pop(1)
import config
config.MASTER_PASSWORD_REQUIRED = config.UPGRADE_CHECK_ENABLED = False  # nothing that asks before the tree is there
runpy.run_path(program, {"SERVER_MODE": False}, "__main__")
"""
pgadmin = subprocess.Popen([sys.executable, "-c", DESKTOP, "pgAdmin4.py"], cwd=package, env=settings, stdout=sys.stderr)
options = ChromeOptions()
for option in (
    "--headless=new",
    "--no-sandbox",
    "--window-size=1400,1300",
    "--hide-scrollbars",
    f"--user-data-dir={folder}/browser",
):
    options.add_argument(option)
options.binary_location = shutil.which("chromium")
browser = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))


def awaited(condition):
    return WebDriverWait(browser, 120).until(condition)


def shown(text):
    """An item of the tree, once it is there."""
    path = f"//div[contains(@class, 'file-entry')][.//span[normalize-space(.)='{text}' or starts-with(normalize-space(.), '{text} (')]]"
    return awaited(lambda b: next(iter(b.find_elements(By.XPATH, path)), None))


def opened(text, child):
    """Open an item until what is below it is there: a first key may come before the tree listens, and a server wants two clicks."""
    path = f"//div[contains(@class, 'file-entry')]//span[starts-with(normalize-space(.), '{child}')]"
    for turn in range(12):
        try:
            shown(text).click()
            if turn % 2:
                ActionChains(browser).double_click(shown(text)).perform()
            else:
                ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()  # which never closes
            return WebDriverWait(browser, 10).until(lambda b: b.find_elements(By.XPATH, path))
        except (TimeoutException, StaleElementReferenceException):  # the tree was drawn anew under the pointer
            continue
    raise AssertionError(f"nothing below {text}")


def listening():
    def there(_):
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", own)) == 0

    awaited(there)


def registered():
    """With the server among those that pgAdmin knows, in the database that it has made when it listens."""
    command = [sys.executable, "-c", DESKTOP, "setup.py", "load-servers", str(folder / "servers.json")]
    subprocess.run(command, cwd=package, env=settings, check=True, stdout=sys.stderr, timeout=300)


def catalog():
    listening()
    registered()
    browser.get(f"http://127.0.0.1:{own}/?key={key}")
    opened("Servers", "dpproxy")
    opened("dpproxy", "Databases")
    opened("Databases", database)


def tool():
    """The query tool of the database, in a frame of its own, by its button; a click that comes while the tree is drawn is lost."""
    labels = " or ".join(
        f"(contains(@{at}, 'Query Tool') and not(contains(@{at}, 'Workspace')))" for at in ("aria-label", "data-label", "title")
    )
    button = f"//button[{labels}]"
    for _ in range(6):
        try:
            shown(database).click()
            awaited(lambda b: [e for e in b.find_elements(By.XPATH, button) if e.is_displayed() and e.is_enabled()])[0].click()
            WebDriverWait(browser, 15).until(lambda b: b.find_elements(By.CSS_SELECTOR, "iframe"))
            break
        except (TimeoutException, StaleElementReferenceException):
            continue
    browser.switch_to.frame(browser.find_elements(By.CSS_SELECTOR, "iframe")[-1])
    awaited(lambda _: editors())


def editors():
    return [e for e in browser.find_elements(By.CSS_SELECTOR, ".cm-content[contenteditable=true]") if e.is_displayed()]


def typed(sql):
    text = editors()[0]
    text.click()
    text.send_keys(Keys.CONTROL, "a")
    text.send_keys(sql)
    text.send_keys(Keys.F5)


def cells():
    return [
        [cell.text for cell in row.find_elements(By.CSS_SELECTOR, ".rdg-cell")][1:]
        for row in browser.find_elements(By.CSS_SELECTOR, ".rdg-row")
    ]


def answer():
    tool()
    typed(COUNT)
    awaited(lambda _: len(cells()) == 4)
    assert cells() == [[region, "true"] for region in ("east", "north", "south", "west")], cells()
    picture = os.environ.get("DPPROXY_PICTURE")
    if picture:
        browser.set_window_size(1400, 1000)
        browser.save_screenshot(picture)  # of the whole page, whichever frame is asked


def errors():
    typed("SELECT email FROM people;")
    awaited(lambda b: 'column "email" does not exist' in b.find_element(By.TAG_NAME, "body").text)


def previews():
    typed("SELECT * FROM people;")
    awaited(lambda b: "Total rows: 100" in b.find_element(By.TAG_NAME, "body").text)


try:
    run(catalog=catalog, answer=answer, errors=errors, previews=previews)
finally:
    browser.quit()
    pgadmin.terminate()
    pgadmin.wait(60)
    home.cleanup()
