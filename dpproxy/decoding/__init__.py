"""Reports of devices as counts of candidates, and how far off estimates may be: integers and `local`, no noise, no charge."""
