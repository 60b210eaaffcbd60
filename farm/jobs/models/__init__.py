"""From a deployment file to models that units can load."""
