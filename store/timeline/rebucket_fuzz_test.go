package timeline

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// What stands for a name in Redis leads to the bucket of the name; what is damaged leads to some bucket.
func FuzzPlaceOfANameInRedis(f *testing.F) {
	f.Add("order-1", "orders", "customer", "a\x01x\x01yk")
	f.Add("", "", "", "")
	r := &Rebucket{to: 7}
	f.Fuzz(func(t *testing.T, id, topic, key, damaged string) {
		id, topic = id[:min(len(id), 255)], topic[:min(len(topic), 255)]
		field := string([]byte{byte(len(id))}) + id + string([]byte{byte(len(topic))}) + topic + key
		want := message.BucketOf(message.HashedName(id, key), 7)
		if got := r.place("name", field); got != want {
			t.Errorf("%q is placed in %d, want %d", field, got, want)
		}
		if got := r.place("tomb", "k"+field); got != want {
			t.Errorf("the tombstone of %q is placed in %d, want %d", field, got, want)
		}
		for _, name := range []string{"name", "names", "tomb", "tombs", "serial", "msg", "chain:" + damaged, "grant:x"} {
			if b := r.place(name, damaged); b != everywhere && (b < 0 || b >= 7) {
				t.Errorf("%s %q is placed in %d", name, damaged, b)
			}
		}
	})
}
