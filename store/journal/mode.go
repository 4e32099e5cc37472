package journal

import "fmt"

// Mode says what an answer waits for.
type Mode uint8

// The modes; doc.go explains them.
const (
	Off Mode = iota
	Async
	Sync
)

var modeWords = [...]string{"off", "async", "sync"}

// String is the mode's word in settings and answers.
func (m Mode) String() string { return modeWords[m] }

// ParseMode reads a setting.
func ParseMode(s string) (Mode, error) {
	for i, word := range modeWords {
		if s == word {
			return Mode(i), nil
		}
	}
	return Off, fmt.Errorf("journal mode %.20q: want off, async or sync", s)
}
