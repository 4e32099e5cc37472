package report

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// Book is everything that one run has measured.
type Book struct {
	Started time.Time     `json:"started"`
	Quick   bool          `json:"quick"` // too small for its figures to mean much
	Whole   bool          `json:"whole"` // no test was left out
	Plan    string        `json:"plan"`
	Rates   []int         `json:"rates"` // of the lateness tests
	Machine stage.Machine `json:"machine"`
	Samples []Sample      `json:"samples"`

	Skipped map[string]string `json:"skipped,omitempty"` // why a test was not run, by its name
}

// Faults lists what makes the run invalid.
func (b *Book) Faults() []string {
	var all []string
	for _, s := range b.Samples {
		for _, fault := range s.Faults {
			all = append(all, fmt.Sprintf("%s, %s, repetition %d: %s", s.Test, s.System, s.Repetition, fault))
		}
	}
	return all
}

// Repetitions is how often each test was run.
func (b *Book) Repetitions() int {
	n := 0
	for _, s := range b.Samples {
		n = max(n, s.Repetition)
	}
	return n
}

// Save writes the book to a file, for Read or for other programs.
func (b *Book) Save(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// Read reads a book that Save has written.
func Read(path string) (*Book, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the figures: %w", err)
	}
	b := new(Book)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("read the figures in %s: %w", path, err)
	}
	return b, nil
}

// series is one figure of one system, by repetition; invalid samples have none.
type series map[int]float64

func (b *Book) series(test, system, name string) series {
	all := make(series)
	for _, s := range b.Samples {
		if value, ok := s.Values[name]; ok && s.Test == test && s.System == system && len(s.Faults) == 0 {
			all[s.Repetition] = value
		}
	}
	return all
}

// over divides two series repetition by repetition: what disturbs one disturbs its neighbour.
func (s series) over(t series) series {
	ratios := make(series)
	for repetition, value := range s {
		if below, ok := t[repetition]; ok && below != 0 {
			ratios[repetition] = value / below
		}
	}
	return ratios
}

// spread is a series as the tables show it.
type spread struct{ median, least, greatest float64 }

func (s series) spread() (sp spread, ok bool) {
	if len(s) == 0 {
		return spread{}, false
	}
	sorted := make([]float64, 0, len(s))
	for _, value := range s {
		sorted = append(sorted, value)
	}
	slices.Sort(sorted)
	n := len(sorted)
	return spread{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, least: sorted[0], greatest: sorted[n-1]}, true
}
