package config

import (
	"fmt"
	"slices"
	"strings"
)

const maxUnknown = 20 // unknown names that are reported one by one

// unknown refuses names that no command has. Values are never shown: a misspelt http.token is still a token.
func (l *loader) unknown(names, known []string, source string) {
	for i, name := range names {
		if i == maxUnknown {
			l.add(
				&Problem{Name: "...", Wrong: fmt.Sprintf("and %d further unknown names", len(names)-i), Source: source})
			return
		}
		wrong := "is not a setting of tarry"
		if near := nearest(name, known); near != "" {
			wrong += fmt.Sprintf(" (did you mean %s?)", near)
		}
		l.add(&Problem{Name: shownName(name), Wrong: wrong, Source: source})
	}
}

// nearest finds the known name that was probably meant: the one with the fewest typing mistakes, if they are few for
// its length, else the only one that ends in the same word.
func nearest(name string, known []string) string {
	folded := fold(name)
	if len(folded) > 128 {
		return ""
	}
	best, least := "", 2+len(folded)/8
	for _, k := range known {
		if d := distance(folded, fold(k)); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return best
	}
	same := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return lastWord(k) != lastWord(name) })
	if len(same) == 1 {
		return same[0]
	}
	return ""
}

func fold(name string) string {
	name = strings.TrimPrefix(name, envPrefix)
	return strings.ToLower(strings.NewReplacer(".", "", "_", "", "-", "").Replace(name))
}

func lastWord(name string) string {
	return strings.ToLower(name[strings.LastIndexAny(name, "._-")+1:])
}

// distance counts inserted, dropped, changed and swapped letters between a and b.
func distance(a, b string) int {
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old = old, row
	}
	return old[len(b)]
}
