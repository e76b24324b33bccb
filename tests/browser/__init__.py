"""A console in a real headless Chromium: `make browser`. Not part of `make test`: it needs Debian's
packages chromium and chromium-driver.
"""
