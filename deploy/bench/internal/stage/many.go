package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Many is what an operation on many messages has done.
type Many struct{ Matched, Done int }

// Many orders an operation on many messages and returns when it is over, and how long that took.
func (t *Tarry) Many(ctx context.Context, path, order string) (done Many, took time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+path, strings.NewReader(order))
	if err != nil {
		return done, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := new(http.Client).Do(request) // it may take minutes
	if err != nil {
		return done, 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	took = time.Since(began)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &done)
	}
	if err != nil {
		return done, took, fmt.Errorf("order %s: %w: %s", path, err, text[:min(len(text), 300)])
	}
	return done, took, nil
}

// Settings is a setting for Tarry that names a file with these settings, as YAML; none for no settings.
func (s *Scope) Settings(yaml string) []string {
	if yaml == "" {
		return nil
	}
	path := filepath.Join(s.TempDir(), "tarry.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		s.Fatal(fmt.Errorf("write settings: %w", err))
	}
	return []string{"TARRY_CONFIG=" + path}
}
