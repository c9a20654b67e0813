"""The functions of the room `merchants`."""
