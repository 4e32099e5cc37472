package lab_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestProcess_SaysHowItEnded(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	p := lab.Start(t, "exit", nil, "sh", "-c", "exit 3")
	if got := p.Wait(soon); got != 3 {
		t.Errorf("exit code: got %d, want 3", got)
	}
	p = lab.Start(t, "killed", nil, "sleep", "1000")
	p.Kill()
	if got := p.Wait(soon); got != -1 {
		t.Errorf("exit code after Kill: got %d, want -1", got)
	}
}

func TestProcess_HasItsEnvironmentAndAnEmptyDirectory(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	p := lab.Start(t, "env", []string{"LAB_WORD=hello"}, "sh", "-c", `echo "$LAB_WORD, $PWD"; echo to stderr >&2`)
	p.Wait(soon)
	if got, want := p.Log(), "hello, "+p.Dir()+"\nto stderr\n"; got != want {
		t.Errorf("output: got %q, want %q", got, want)
	}
}

func TestProcess_LogAndWaitLogSeeOnlyTheCurrentRun(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	p := lab.Start(t, "runs", nil, "sh", "-c", "echo run >>runs; wc -l <runs; exec sleep 1000")
	p.WaitLog("1")
	p.Restart()
	p.WaitLog("2")
	if got := strings.TrimSpace(p.Log()); got != "2" {
		t.Errorf("output of the second run: got %q, want 2", got)
	}
}

func TestProcess_SignalReachesIt(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	p := lab.Start(t, "trap", nil, "sh", "-c",
		`trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.01; done`)
	p.WaitLog("ready")
	p.Signal(syscall.SIGUSR1) // not SIGHUP: a shell under nohup cannot trap it
	p.WaitLog("caught")
	if got := p.Wait(soon); got != 7 {
		t.Errorf("exit code: got %d, want 7", got)
	}
}

func TestProcess_KillTakesItsChildrenToo(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	p := lab.Start(t, "parent", nil, "sh", "-c", "sleep 1000 & echo child $!; wait")
	p.WaitLog("\n")
	child, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(p.Log()), "child "))
	if err != nil {
		t.Fatal(err)
	}
	if err := dead(child); err == nil {
		t.Fatal("the child never lived")
	}
	p.Kill()
	lab.Eventually(t, soon, func() error { return dead(child) })
}

func TestProcess_TestsOwnMisuseAndBadEndsAreReported(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		act        func(t testing.TB)
	}{
		{"no such program", "no-such-program is not installed: run deploy/lab/install.sh", func(t testing.TB) {
			lab.Start(t, "x", nil, "no-such-program")
		}},
		{"no such path", "no such file or directory", func(t testing.TB) {
			lab.Start(t, "x", nil, "./no-such-program")
		}},
		{"it ends before it says the word", `x ended (exit status 4) and never said "ready"; output:` + "\nso long\n",
			func(t testing.TB) {
				lab.Start(t, "x", nil, "sh", "-c", "echo so long; exit 4").WaitLog("ready")
			}},
		{"it does not end", "x still runs after 0s", func(t testing.TB) {
			lab.Start(t, "x", nil, "sleep", "1000").Wait(0)
		}},
		{"pause of what is gone", "send stopped (signal) to x: it is not running", func(t testing.TB) {
			p := lab.Start(t, "x", nil, "sleep", "1000")
			p.Kill()
			p.Pause()
		}},
		{"a data race", "x reported a data race", func(t testing.TB) {
			lab.Start(t, "x", nil, "echo", "WARNING: DATA RACE").Wait(soon)
		}},
		{"a server that cannot start", "it ended (exit status 1) before it was ready; output:", func(t testing.TB) {
			lab.NewRedis(t, "--no-such-option", "1")
		}},
		{"a condition that does not come", "not so after ", func(t testing.TB) {
			lab.Eventually(t, 1e6, func() error { return errors.New("the last reason") })
		}},
		{"why it does not come", "s: the last reason", func(t testing.TB) {
			lab.Eventually(t, 1e6, func() error { return errors.New("the last reason") })
		}},
		{"a package that does not build", "no-such-package", func(t testing.TB) {
			lab.Binary(t, "./no-such-package")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := failure(t, tc.act); !strings.Contains(got, tc.want) {
				t.Errorf("the test was reported %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestProcess_OutputIsShownWhenTheTestFails(t *testing.T) {
	lab.Needs(t, "sh")
	t.Parallel()
	got := failure(t, func(t testing.TB) {
		lab.Start(t, "x", nil, "echo", "last words").Wait(soon)
		t.Error("a reason of its own")
	})
	if want := "end of the output of x:\nlast words"; !strings.Contains(got, want) {
		t.Errorf("the log of the failed test: got %q, want %q in it", got, want)
	}
}

func TestProcess_RunsNginxInFrontOfAServer(t *testing.T) {
	t.Parallel()
	port := lab.FreePort(t)
	config := filepath.Join(t.TempDir(), "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid nginx.pid; error_log stderr; events {}
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi; scgi_temp_path scgi;
server { listen 127.0.0.1:%d; location / { return 200 "here"; } } }`, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lab.Start(t, "nginx", nil, "nginx", "-p", t.TempDir(), "-c", config)
	lab.Eventually(t, soon, func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("got status %d, want 200", resp.StatusCode)
		}
		return nil
	})
}

// The test binary starts itself again as a program that uses shared servers, and kills that.
func TestShared_ServersAndTheirDirectoryDieWithAKilledTestBinary(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "redis-server")
	if os.Getenv("LAB_VICTIM") != "" {
		srv, own := lab.SharedRedis(t), lab.NewRedis(t)
		fmt.Printf("\nservers %d %d %s\n", srv.Pid(), own.Pid(), filepath.Dir(srv.Dir()))
		select {} // until killed
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "LAB_VICTIM=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var shared, own int
	var dir string
	lines(t, out, func(line string) bool {
		n, _ := fmt.Sscanf(line, "servers %d %d %s", &shared, &own, &dir)
		return n == 3
	})
	for _, pid := range []int{shared, own} {
		if err := dead(pid); err == nil {
			t.Fatalf("server %d never lived", pid)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		_, err := os.Stat(dir)
		if !errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s is still there", dir)
		} else {
			err = nil
		}
		return errors.Join(err, dead(shared), dead(own))
	})
}

// dead returns an error while the process lives. A zombie nobody has collected yet is dead.
func dead(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, after, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(after, "Z") {
		return nil
	}
	return fmt.Errorf("process %d lives", pid)
}
