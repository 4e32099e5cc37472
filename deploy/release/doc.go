// Package release tests what make.sh makes: the archive, the Debian package, the image and what goes with them.
//
//	make.sh ─▶ archive ─▶ tarry version, push, pull ────────────┐
//	        ─▶ package ─▶ installed, purged, installed again ─▶ serves as its own user
//	        ─▶ image   ─▶ read by skopeo, compared with the Dockerfile
//
// The package is installed over the machine's own file system, in a layer that goes with the test.
package release
