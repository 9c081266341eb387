package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/providers/aws/metrics"
)

// samples returns the values of all series of a metric: of a histogram, its counts.
func samples(t *testing.T, m *metrics.Metrics, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range m.Collectors() {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			var labels []string
			for _, label := range series.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			out[strings.Join(labels, " ")] = series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestCallsAreCounted makes calls of two services to a server that answers with several status codes.
func TestCallsAreCounted(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"__type": "SurpriseException", "message": "anything"}`)
	}))
	m := metrics.New(func() []metrics.Limit { return nil })
	config := aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }, APIOptions: []func(*middleware.Stack) error{m.Middleware},
	}
	get := func() {
		_, _ = cloudcontrol.NewFromConfig(config).GetResource(t.Context(), &cloudcontrol.GetResourceInput{TypeName: aws.String("AWS::EC2::VPC"), Identifier: aws.String("vpc-1")})
	}
	for _, status = range []int{200, 400, 400, 403, 500, 503} {
		get()
	}
	server.Close()
	get()
	_, _ = sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	want := map[string]float64{
		"2xx GetResource CloudControl": 1, "4xx GetResource CloudControl": 3, "5xx GetResource CloudControl": 2, "none GetResource CloudControl": 1,
		"none GetCallerIdentity STS": 1,
	}
	if diff := cmp.Diff(want, samples(t, m, "espalier_aws_calls_total")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"GetResource CloudControl": 7, "GetCallerIdentity STS": 1}, samples(t, m, "espalier_aws_call_duration_seconds")); diff != "" {
		t.Errorf("durations (-want +got):\n%s", diff)
	}
}

func TestReadsAndWaitsAreCounted(t *testing.T) {
	m := metrics.New(func() []metrics.Limit { return nil })
	m.CountReads(1, false)
	m.CountReads(40, true)
	m.ObserveWait("write", time.Second)
	if diff := cmp.Diff(map[string]float64{"single": 1, "together": 40}, samples(t, m, "espalier_aws_resources_read_total")); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"write": 1}, samples(t, m, "espalier_aws_limit_wait_seconds")); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	var none *metrics.Metrics
	none.CountReads(1, true)
	none.ObserveWait("read", time.Second)
}

// TestAccountsAreBounded has more accounts than are shown, and one that an endpoint of a namespace has named.
func TestAccountsAreBounded(t *testing.T) {
	state := []metrics.Limit{{Waiting: 5, Throttled: 7}}
	for i := range 150 {
		state = append(state, metrics.Limit{Account: fmt.Sprintf("%012d", i), Region: "eu-central-1", Rate: 10, Waiting: 1, Throttled: 2, NotSent: 3})
	}
	m := metrics.New(func() []metrics.Limit { return state })
	got := samples(t, m, "espalier_aws_calls_waiting")
	if len(got) != 101 || got["other "] != 55 || got["000000000099 eu-central-1"] != 1 {
		t.Errorf("%d series; %v calls wait of others", len(got), got["other "])
	}
	for name, want := range map[string]float64{"espalier_aws_limit_calls_per_second": 10, "espalier_aws_throttled_total": 2, "espalier_aws_calls_not_sent_total": 3} {
		if got := samples(t, m, name); len(got) != 100 || got["000000000000 eu-central-1"] != want {
			t.Errorf("%s has %d series; that of the first account is %v", name, len(got), got["000000000000 eu-central-1"])
		}
	}
}

var (
	described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	quoted    = regexp.MustCompile("`([^`]+)`")
)

// TestEveryMetricIsDocumented compares docs/metrics.md with the collectors.
func TestEveryMetricIsDocumented(t *testing.T) {
	var want, got []string
	for _, collector := range metrics.New(nil).Collectors() {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			collector.Describe(descs)
		}()
		for desc := range descs {
			found := described.FindStringSubmatch(desc.String())
			if found == nil {
				t.Fatalf("cannot read %s", desc)
			}
			want = append(want, found[1]+" "+strings.ReplaceAll(found[2], ",", " "))
		}
	}
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`espalier_aws_") {
			continue
		}
		var row []string
		for _, word := range quoted.FindAllStringSubmatch(cells[1]+cells[3], -1) {
			row = append(row, word[1])
		}
		got = append(got, strings.Join(row, " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (-want +got):\n%s", diff)
	}
}
