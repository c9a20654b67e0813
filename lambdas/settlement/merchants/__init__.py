"""The room of merchants: releases leave their balance alone, and a sweep adds them later."""
