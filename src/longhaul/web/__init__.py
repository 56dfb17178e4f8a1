"""The live page, made from run directories; it reads them and changes nothing."""
