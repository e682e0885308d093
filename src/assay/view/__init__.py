"""The browser view. So far: the batch worker of HOP's View."""
