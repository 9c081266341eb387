package metrics

import "github.com/prometheus/client_golang/prometheus"

// Limit is the state of the limiter of an account and region.
type Limit struct {
	// Account and Region are shown. They are empty for an account that only an endpoint of a namespace's own
	// configuration has named: it could name any.
	Account, Region string
	// Rate is the calls a second, Waiting how many calls wait. Throttled are the calls that AWS has throttled, NotSent
	// the calls that would have waited too long.
	Rate               float64
	Waiting            int
	Throttled, NotSent int64
}

// maxShown bounds the accounts and regions with series of their own.
const maxShown = 100

const others = "other"

var (
	rate = prometheus.NewDesc("espalier_aws_limit_calls_per_second",
		"The limit of the calls to an account and region. It grows to 25, and is halved when AWS throttles.", []string{"account", "region"}, nil)
	waiting = prometheus.NewDesc("espalier_aws_calls_waiting",
		"Calls that wait for the limit of an account and region.", []string{"account", "region"}, nil)
	throttled = prometheus.NewDesc("espalier_aws_throttled_total",
		"Calls to an account and region that AWS has throttled.", []string{"account", "region"}, nil)
	notSent = prometheus.NewDesc("espalier_aws_calls_not_sent_total",
		"Calls to an account and region that were not sent, because they would have waited too long.", []string{"account", "region"}, nil)
)

type limits struct{ state func() []Limit }

// Describe implements prometheus.Collector.
func (limits) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{rate, waiting, throttled, notSent} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (l limits) Collect(out chan<- prometheus.Metric) {
	shown, hidden := 0, 0
	for _, limit := range l.state() {
		if limit.Account == "" || shown == maxShown {
			hidden += limit.Waiting
			continue
		}
		shown++
		send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
			out <- prometheus.MustNewConstMetric(desc, kind, value, limit.Account, limit.Region)
		}
		send(rate, prometheus.GaugeValue, limit.Rate)
		send(waiting, prometheus.GaugeValue, float64(limit.Waiting))
		send(throttled, prometheus.CounterValue, float64(limit.Throttled))
		send(notSent, prometheus.CounterValue, float64(limit.NotSent))
	}
	out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(hidden), others, "")
}
