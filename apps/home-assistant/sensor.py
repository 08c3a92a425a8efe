"""300 thermometers, whose values change one after the other, each once in 30 seconds."""

import random
from datetime import timedelta

from homeassistant.components.sensor import SensorDeviceClass, SensorEntity, SensorStateClass
from homeassistant.const import UnitOfTemperature
from homeassistant.core import callback
from homeassistant.helpers.event import async_track_time_interval

COUNT = 300
# The default interval of sensors that Home Assistant polls (SCAN_INTERVAL in homeassistant/components/sensor).
INTERVAL_S = 30


class Thermometer(SensorEntity):
    """A sensor whose value moves a little at each change."""

    _attr_should_poll = False
    _attr_device_class = SensorDeviceClass.TEMPERATURE
    _attr_state_class = SensorStateClass.MEASUREMENT
    _attr_native_unit_of_measurement = UnitOfTemperature.CELSIUS

    def __init__(self, at):
        self._attr_name = f"Thermometer {at}"
        self._attr_unique_id = f"thermometer_{at}"
        self.entity_id = f"sensor.thermometer_{at}"
        self._random = random.Random(at)
        self._attr_native_value = 20.0

    def change(self):
        """Set a new value."""
        step = self._random.choice([-0.3, -0.2, -0.1, 0.1, 0.2, 0.3])
        self._attr_native_value = round(self._attr_native_value + step, 1)
        self.async_write_ha_state()


async def async_setup_platform(hass, config, async_add_entities, discovery_info=None):
    """Add the sensors, and change one after the other."""
    sensors = [Thermometer(at) for at in range(COUNT)]
    async_add_entities(sensors)
    changes = 0

    @callback
    def change(_now):
        nonlocal changes
        sensors[changes % COUNT].change()
        changes += 1

    async_track_time_interval(hass, change, timedelta(seconds=INTERVAL_S / COUNT))
