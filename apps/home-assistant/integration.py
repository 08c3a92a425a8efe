"""An integration with 300 sensors, a token for requests, and a file that tells that Home Assistant has started."""

import os
from datetime import timedelta
from pathlib import Path

from homeassistant.auth.const import GROUP_ID_ADMIN
from homeassistant.const import EVENT_HOMEASSISTANT_STARTED, EVENT_HOMEASSISTANT_STOP
from homeassistant.helpers import discovery

DOMAIN = "home"
RUN = Path(os.environ["RUN_FOLDER"])
NAME = "person"


async def async_setup(hass, config):
    """Set up the sensors and the token."""
    users = await hass.auth.async_get_users()
    user = next((user for user in users if user.name == NAME), None)
    if user is None:
        user = await hass.auth.async_create_system_user(NAME, group_ids=[GROUP_ID_ADMIN])
    token = await hass.auth.async_create_refresh_token(user, access_token_expiration=timedelta(days=1))
    access = hass.auth.async_create_access_token(token)
    hass.async_create_task(discovery.async_load_platform(hass, "sensor", DOMAIN, {}, config))

    async def started(_event):
        def write():
            (RUN / "token").write_text(access)
            (RUN / "ready").touch()

        await hass.async_add_executor_job(write)

    async def stopped(_event):
        await hass.async_add_executor_job(lambda: (RUN / "ready").unlink(missing_ok=True))

    hass.bus.async_listen_once(EVENT_HOMEASSISTANT_STARTED, started)
    hass.bus.async_listen_once(EVENT_HOMEASSISTANT_STOP, stopped)
    return True
