package config

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// deploy/tarry.yaml is Sample() as a file: what it says of a setting is what the code does.
func TestTheSampleFileInDeployIsTheSampleAndLoads(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "deploy", "tarry.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(Sample()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != Sample() {
		t.Errorf("deploy/tarry.yaml is another text (rewrite it with: go test ./cmd/internal/config -run " +
			"SampleFile -update)")
	}
	want, err := LoadServe(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := LoadServe(nil, []string{"TARRY_CONFIG=" + path}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want the defaults", got, err)
	}
}
