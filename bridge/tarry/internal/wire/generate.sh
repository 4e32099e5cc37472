#!/bin/sh
# Writes the files of this package from those of the same names in the daemon's bridge/wire.
set -eu
for f in decode doormany error headers names push retry subject times; do
	{
		echo '// Code generated from bridge/wire by go generate; DO NOT EDIT.'
		echo
		cat "../../../wire/$f.go"
	} >"$f.go"
done
