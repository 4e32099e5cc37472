package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// world is the composition as processes.
type world struct {
	t         testing.TB
	compose   composition
	redis     *lab.Redis
	nats      *lab.NATS
	zookeeper *lab.ZooKeeper
	mariadb   *lab.MariaDB
	addresses map[string]string // service:port, as compose.yaml writes it, to where it is here
	instances map[string]*instance
}

// instance is one of the two, as its container would be.
type instance struct {
	*lab.Process
	name, url string
	env       []string
	check     healthcheck
}

// start runs everything but nginx; the instances are started, not ready.
func start(t testing.TB) *world {
	t.Helper()
	w := servers(t)
	bin, tokens := program(t), "TARRY_HTTP_TOKENS_FILE="+tokensFile(t)
	for _, i := range w.instances {
		i.env = append(i.env, tokens)
		i.Process = lab.Start(t, i.name, i.env, bin, words(t, base(t).instruction(t, "CMD"))...)
	}
	return w
}

// servers runs what the instances need, and gives them their addresses and environments.
func servers(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, compose: compose(t), instances: map[string]*instance{}}
	w.redis = lab.NewRedis(t, w.compose.Services["redis"].Command[1:]...)
	w.nats = lab.NewNATS(t)
	w.zookeeper = lab.NewZooKeeper(t, zooKeeperLines(t)...)
	w.mariadb = startMariaDB(t, w.compose.Services["mariadb"])
	w.addresses = map[string]string{
		"redis:6379":     w.redis.Addr,
		"nats:4222":      w.nats.Addr,
		"zookeeper:2181": w.zookeeper.Addr,
		"mariadb:3306":   w.mariadb.Addr,
	}
	for _, name := range w.compose.instances() {
		w.addresses[name+":"+listenPort(t, w.compose.Services[name])] = net.JoinHostPort("127.0.0.1",
			strconv.Itoa(lab.FreePort(t)))
	}
	for _, name := range w.compose.instances() {
		i := &instance{name: name, env: w.environment(name), check: w.compose.Services[name].Healthcheck}
		i.url = "http://" + w.address(name)
		// In a container http.listen and the default of the client commands agree; here the port is another.
		i.env = append(i.env, "TARRY_SERVER="+i.url)
		w.instances[name] = i
	}
	return w
}

// startMariaDB starts the service with its flags, and makes the user and the database that the image makes of its
// environment, with the same rights. root needs no password here.
func startMariaDB(t testing.TB, s service) *lab.MariaDB {
	t.Helper()
	m := lab.NewMariaDB(t, s.Command[1:]...)
	user, database := s.Environment["MARIADB_USER"], s.Environment["MARIADB_DATABASE"]
	for _, statement := range []string{
		fmt.Sprintf("CREATE DATABASE `%s`", database),
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", user, s.Environment["MARIADB_PASSWORD"]),
		fmt.Sprintf("GRANT ALL ON `%s`.* TO '%s'@'%%'", database, user),
	} {
		if _, err := m.SQL("", statement); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

var hostPort = regexp.MustCompile(`[a-z][a-z-]*:[0-9]+`)

func (w *world) address(name string) string {
	return w.addresses[name+":"+listenPort(w.t, w.compose.Services[name])]
}

// environment is what compose.yaml gives a service, with the addresses of this world.
func (w *world) environment(name string) []string {
	w.t.Helper()
	s := w.compose.Services[name]
	var env []string
	for key, value := range s.Environment {
		if key == "TARRY_HTTP_LISTEN" {
			value = name + value
		}
		for written, here := range w.addresses {
			value = strings.ReplaceAll(value, written, here)
		}
		// What is left of a name before a port is of no service, or of another port than it serves.
		if left := hostPort.FindString(value); left != "" {
			w.t.Fatalf("%s: %s: no service is at %s", name, key, left)
		}
		env = append(env, key+"="+value)
	}
	return env
}

// zooKeeperLines are zoo.cfg's, without the places that differ here.
func zooKeeperLines(t testing.TB) []lab.ZooKeeperOption {
	t.Helper()
	places := map[string]string{"dataDir": "/data", "dataLogDir": "/datalog", "clientPort": "2181"}
	var options []lab.ZooKeeperOption
	for line := range strings.Lines(inDeploy(t, "zoo.cfg")) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case !ok:
			t.Fatalf("zoo.cfg: %q", line)
		case places[key] != "":
			if value != places[key] {
				t.Errorf("zoo.cfg: %s, want %s, where compose.yaml expects it", line, places[key])
			}
			delete(places, key)
		default:
			options = append(options, lab.ZooKeeperConfig(line))
		}
	}
	if len(places) > 0 {
		t.Errorf("zoo.cfg does not name %v", places)
	}
	return options
}

// ready waits until an instance says that it is, and lacks nothing.
func (w *world) ready(instances ...*instance) {
	w.t.Helper()
	for _, i := range instances {
		lab.Eventually(w.t, time.Minute, func() error {
			if !i.Running() {
				w.t.Fatalf("%s ended: %s", i.name, i.Log())
			}
			status, body, err := get(i.url + "/readyz")
			if err == nil && (status != http.StatusOK || strings.Contains(body, `"degraded"`)) {
				err = fmt.Errorf("%s: %d %s", i.name, status, body)
			}
			return err
		})
	}
}

func (w *world) all() []*instance {
	var list []*instance
	for _, name := range slices.Sorted(maps.Keys(w.instances)) {
		list = append(list, w.instances[name])
	}
	return list
}

// status is an error unless a GET answers with want.
func (i *instance) status(path string, want int) error {
	status, body, err := get(i.url + path)
	if err == nil && status != want {
		err = fmt.Errorf("%s: GET %s: got %d %s, want %d", i.name, path, status, body, want)
	}
	return err
}

// metric is the value of one without labels.
func (i *instance) metric(name string) (float64, error) {
	status, body, err := get(i.url + "/metrics")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("metrics of %s: %d, %w", i.name, status, err)
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", i.name, name)
}

// healthy runs what Docker would run inside, and returns its exit code and words.
func (w *world) healthy(i *instance) (code int, said string) {
	w.t.Helper()
	p := lab.Start(w.t, "health", i.env, program(w.t), i.check.Test[2:]...)
	limit, err := time.ParseDuration(i.check.Timeout)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Wait(4 * limit), p.Log() // machines that test are slower than those that serve
}

type clusterAnswer struct {
	Term   uint64
	Leader *struct{ Instance, Address string }
	// Instances by role.
	Instances []struct {
		Instance, Address, Role string
		CanLead                 bool `json:"can_lead"`
	}
}

// cluster is who leads, as an instance or the proxy at the address sees it.
func cluster(url string) (c clusterAnswer, err error) {
	status, body, err := get(url + "/v1/cluster")
	if err != nil {
		return c, err
	}
	if status != http.StatusOK {
		return c, fmt.Errorf("cluster: %d %s", status, body)
	}
	return c, json.Unmarshal([]byte(body), &c)
}

// roles waits until both instances agree that one leads and the other stands by, able to lead.
func (w *world) roles() (leader, standby *instance, term uint64) {
	w.t.Helper()
	lab.Eventually(w.t, time.Minute, func() error {
		for _, i := range w.all() {
			c, err := cluster(i.url)
			if err != nil {
				return err
			}
			if c.Leader == nil || len(c.Instances) != len(w.instances) {
				return fmt.Errorf("%s sees %+v", i.name, c)
			}
			if leader != nil && leader.name != c.Leader.Instance {
				leader = nil
				return fmt.Errorf("%s sees %s lead", i.name, c.Leader.Instance)
			}
			leader, term = w.instances[c.Leader.Instance], c.Term
			for _, each := range c.Instances {
				if !each.CanLead || each.Address != w.address(each.Instance) ||
					(each.Role == "leader") != (each.Instance == leader.name) {
					return fmt.Errorf("%s sees %+v", i.name, each)
				}
			}
		}
		return nil
	})
	for _, i := range w.all() {
		if i != leader {
			standby = i
		}
	}
	return leader, standby, term
}
