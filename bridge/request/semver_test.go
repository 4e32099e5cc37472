package request

import (
	"testing"
)

func TestSemver_IsAlwaysWhatServicesInsistOn(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "": "0.0.0",
		"(devel)": "0.0.0", "1.2": "0.0.0"} {
		if got := semver(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}
