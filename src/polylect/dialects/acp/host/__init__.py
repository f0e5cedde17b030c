"""The client's end of ACP: drives agents of any vendor. `codec.HostSide` is what `polylect.host` uses."""
