"""DepthToSpace and SpaceToDepth: channels become blocks of pixels, and the way back."""
