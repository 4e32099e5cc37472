package api

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// metrics are the metrics of one server. A route label is a pattern, never a path, because ids are unique per message.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	build    *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, version string) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		requests: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_http_requests_total",
			Help: "HTTP requests by route and status."}, []string{"route", "status"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{Name: "tarry_http_request_seconds",
			Help:    "Time from the headers of a request to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}, []string{"route"}),
		build: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "tarry_build_info",
			Help: "Always 1; the version is the label."}, []string{"version", "go"}),
	}
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

// observed is a request in progress; it records what was answered.
type observed struct {
	http.ResponseWriter
	s       *Server
	r       *http.Request
	started time.Time
	status  int
	bytes   int
	by      *ops.Caller // of an operator's action, else nil

	took     time.Duration // until it was answered, if the connection was read on then
	admitted bool          // its caller may make it
	whole    bool          // its body was read
}

func (s *Server) observe(w http.ResponseWriter, r *http.Request) *observed {
	return &observed{ResponseWriter: w, s: s, r: r, started: time.Now()}
}

func (o *observed) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	n, err := o.ResponseWriter.Write(b)
	o.bytes += n
	return n, err
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// done ends the request: it turns a panic into 500, and counts and logs the outcome. It must be deferred.
func (o *observed) done() {
	route := o.r.Pattern
	if route == "" || route == unrouted {
		route = "other"
	}
	failure := recover()
	if failure != nil && failure != http.ErrAbortHandler {
		o.s.log.Error().Str("route", route).Str("panic", ops.PanicText(failure)).Str("stack", string(debug.Stack())).Msg(
			"request panicked")
		if o.status == 0 {
			o.s.Later(o.r, o.s.mounted[o.r.Pattern])
			o.s.refuse(o, o.r, &ops.Refused{Problem: ops.ProblemOf(ops.ErrPanicked)})
			failure = nil
		}
	}
	took := cmp.Or(o.took, time.Since(o.started))
	o.s.metrics.requests.WithLabelValues(route, strconv.Itoa(o.status)).Inc()
	o.s.metrics.seconds.WithLabelValues(route).Observe(took.Seconds())
	o.audited(took)
	o.s.log.Debug().Str("method", o.r.Method).Str("route", route).Int("status", o.status).Int("bytes", o.bytes).
		Dur("took", took).Str("remote", o.r.RemoteAddr).Msg("request served")
	if failure != nil {
		panic(http.ErrAbortHandler) // the answer is partly sent: only an abort shows that it is incomplete
	}
}

// gatherLog logs promhttp's errors.
type gatherLog struct{ log zerolog.Logger }

func (l gatherLog) Println(v ...any) {
	l.log.Warn().Str("cause", fmt.Sprint(v...)).Msg("some metrics could not be gathered")
}

// audited writes the log line of a request that is an operator's action.
func (o *observed) audited(took time.Duration) {
	if o.by != nil {
		o.s.ops.Acted(o.r.Context(), o.by, o.status, took)
	}
}
