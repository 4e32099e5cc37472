//go:build !linux

package doctor

func networked(string) string { return "" }

func volatile(string) bool { return false }
