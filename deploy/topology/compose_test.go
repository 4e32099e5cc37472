package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composition is what the tests read of compose.yaml.
type composition struct {
	Services map[string]service `yaml:"services"`
	Networks map[string]any     `yaml:"networks"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string             `yaml:"image"`
	User        string             `yaml:"user"`
	ReadOnly    bool               `yaml:"read_only"`
	CapDrop     []string           `yaml:"cap_drop"`
	CapAdd      []string           `yaml:"cap_add"`
	Privileged  bool               `yaml:"privileged"`
	SecurityOpt []string           `yaml:"security_opt"`
	Restart     string             `yaml:"restart"`
	Environment map[string]string  `yaml:"environment"`
	Command     []string           `yaml:"command"`
	Ports       []string           `yaml:"ports"`
	Volumes     []string           `yaml:"volumes"`
	Tmpfs       []string           `yaml:"tmpfs"`
	ExtraHosts  []string           `yaml:"extra_hosts"`
	Networks    networks           `yaml:"networks"`
	Healthcheck healthcheck        `yaml:"healthcheck"`
	StopGrace   string             `yaml:"stop_grace_period"`
	DependsOn   map[string]waiting `yaml:"depends_on"`
}

type healthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	StartPeriod string   `yaml:"start_period"`
	Retries     int      `yaml:"retries"`
}

type waiting struct {
	Condition string `yaml:"condition"`
}

// networks is a list of names, or names with an address each.
type networks map[string]string

func (n *networks) UnmarshalYAML(node *yaml.Node) error {
	*n = networks{}
	if node.Kind == yaml.SequenceNode {
		var names []string
		if err := node.Decode(&names); err != nil {
			return err
		}
		for _, name := range names {
			(*n)[name] = ""
		}
		return nil
	}
	var given map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
	if err := node.Decode(&given); err != nil {
		return err
	}
	for name, at := range given {
		(*n)[name] = at.Address
	}
	return nil
}

// inDeploy reads a file in deploy/, or above it with "..".
func inDeploy(t testing.TB, name ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{".."}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// operations is the operators' page.
func operations(t testing.TB) string { return inDeploy(t, "..", "docs", "operations.md") }

// what the tests give where compose.yaml asks for a secret.
const (
	token        = "a-token-of-these-tests"
	password     = "a-password-of-these-tests"
	rootPassword = "root's-password-in-these-tests"
)

// secrets are the variables without a default.
func secrets() map[string]string {
	return map[string]string{"TARRY_HTTP_TOKEN": token, "MARIADB_PASSWORD": password,
		"MARIADB_ROOT_PASSWORD": rootPassword}
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)(:[?-])?([^}]*)\}`)

// compose reads compose.yaml the way compose does, variables included.
func compose(t testing.TB) composition {
	t.Helper()
	given := secrets()
	var problems []string
	text := variable.ReplaceAllStringFunc(inDeploy(t, "compose.yaml"), func(match string) string {
		part := variable.FindStringSubmatch(match)
		value, ok := given[part[1]]
		switch {
		case ok && part[2] == ":?":
			return value
		case part[2] == ":-":
			return part[3]
		}
		problems = append(problems, fmt.Sprintf("%s is no secret that must be set, and has no default", match))
		return ""
	})
	var c composition
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		t.Fatalf("compose.yaml: %s", strings.Join(problems, "; "))
	}
	return c
}

// instances are the services that run tarry.
func (c composition) instances() []string { return []string{"tarry-a", "tarry-b"} }
