package wire

import "strconv"

// Delivery is what the headers of a delivered message are made from.
type Delivery struct {
	UID     string
	ID      string // what the user calls it; the uid where empty
	Key     string
	Due     int64 // unix milliseconds, the moment asked for
	Attempt int
	Retry   string   // the schedule of its retries, empty for none
	Subject string   // the topic, where it leaves on another subject: a partition's, or that of the dead; else empty
	Headers []Header // the user's; their values are shared, not copied
}

// DeliverHeaders builds the headers of a message that is due. It stands on the path of every delivery, so everything
// but the map shares one block of memory.
func DeliverHeaders(d Delivery) map[string][]string {
	id := d.ID
	if id == "" {
		id = d.UID
	}
	n := len(d.Headers) + 4
	if d.Key != "" {
		n++
	}
	if d.Retry != "" {
		n++
	}
	if d.Subject != "" {
		n++
	}
	h := make(map[string][]string, n)
	values := make([]string, 0, n)
	add := func(name, value string) {
		values = append(values, value)
		last := len(values)
		h[name] = values[last-1 : last : last]
	}
	for i := 0; i < len(d.Headers); {
		name, start := d.Headers[i].Name, len(values)
		for ; i < len(d.Headers) && d.Headers[i].Name == name; i++ {
			values = append(values, d.Headers[i].Value)
		}
		run := values[start:len(values):len(values)]
		if earlier, ok := h[name]; ok { // not sorted: a name that came before
			run = append(earlier, run...)
		}
		h[name] = run
	}
	add(HeaderID, id)
	add(HeaderDue, strconv.FormatInt(d.Due, 10))
	add(HeaderAttempt, strconv.Itoa(d.Attempt))
	if d.Key != "" {
		add(HeaderKey, d.Key)
	}
	if d.Retry != "" {
		add(HeaderRetry, d.Retry)
	}
	if _, copied := h[HeaderSubject]; d.Subject != "" && !copied { // a copy names the topic of what ended
		add(HeaderSubject, d.Subject)
	}
	add(HeaderMsgID, d.UID)
	return h
}
