package chart

import (
	"encoding/json"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/charts"
)

// libraryMetrics are metrics of the libraries that alerts and the dashboard use.
// TestTheControllersRunAsTheRenderedAccount finds them on the running program.
var libraryMetrics = []string{"leader_election_master_status", "process_cpu_seconds_total", "process_resident_memory_bytes", "rest_client_requests_total"}

// expressions are those of the alerts and the dashboard, by their names.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range render(t, "metrics.alerts.enabled=true", "metrics.dashboard.enabled=true") {
		switch o.GetKind() {
		case "PrometheusRule":
			for _, rule := range rulesOf(t, o) {
				out["alert "+rule.Alert] = rule.Expr
			}
		case "ConfigMap":
			text, isDashboard, _ := unstructured.NestedString(o.Object, "data", "espalier.json")
			if !isDashboard {
				continue
			}
			var dashboard struct {
				Panels []struct {
					Title   string
					Targets []struct{ Expr string }
				}
			}
			if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
				t.Fatal(err)
			}
			for _, panel := range dashboard.Panels {
				for _, target := range panel.Targets {
					out["panel "+panel.Title] = target.Expr
				}
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d expressions", len(out))
	}
	return out
}

// alertRule is a rule of a PrometheusRule.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func rulesOf(t *testing.T, o *unstructured.Unstructured) []alertRule {
	t.Helper()
	raw, err := yaml.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var spec struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.UnmarshalStrict(raw, &spec, yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), `"name"`) {
		t.Fatal(err)
	}
	if len(spec.Groups) != 1 || len(spec.Groups[0].Rules) == 0 {
		t.Fatalf("no rules: %s", raw)
	}
	return spec.Groups[0].Rules
}

// documented are the metrics of docs/metrics.md, which are those that the program registers, with
// their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`espalier_") {
			continue
		}
		name := quoted.FindStringSubmatch(cells[1])[1]
		suffixes := map[bool][]string{false: {""}, true: {"_bucket", "_count", "_sum"}}[strings.TrimSpace(cells[2]) == "histogram"]
		for _, suffix := range suffixes {
			out[name+suffix] = nil // it may have no labels
			for _, label := range quoted.FindAllStringSubmatch(cells[3], -1) {
				out[name+suffix] = append(out[name+suffix], label[1])
			}
			if suffix == "_bucket" {
				out[name+suffix] = append(out[name+suffix], "le")
			}
		}
	}
	return out
}

// TestTheAlertsAreARuleFile which Prometheus reads without its operator, and which has what the operator gets.
func TestTheAlertsAreARuleFile(t *testing.T) {
	text, err := fs.ReadFile(charts.Espalier(), "files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, group := range read.Groups {
		for _, rule := range group.Rules {
			want = append(want, rule.Alert)
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("%s has no severity, or no summary", rule.Alert)
			}
		}
	}
	var got []string
	for _, o := range render(t, "metrics.alerts.enabled=true") {
		if o.GetKind() == "PrometheusRule" {
			for _, rule := range rulesOf(t, o) {
				got = append(got, rule.Alert)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the file and the chart differ: %s", diff)
	}
}

// TestWithoutMetricsNothingReadsThem disables the metrics: alerts about missing ones would fire.
func TestWithoutMetricsNothingReadsThem(t *testing.T) {
	for _, o := range render(t, "metrics.enabled=false", "metrics.serviceMonitor.enabled=true", "metrics.alerts.enabled=true", "metrics.dashboard.enabled=true") {
		if kind := o.GetKind(); kind == "ServiceMonitor" || kind == "PrometheusRule" || o.GetName() == "espalier-dashboard" {
			t.Errorf("%s %s is rendered", kind, o.GetName())
		}
	}
}

// targetLabels are those that Prometheus adds, by which replicas differ.
var targetLabels = []string{"instance", "pod"}

// TestExpressionsUseExistingMetrics parses the expressions of alerts and panels, and looks up their
// metrics and labels.
func TestExpressionsUseExistingMetrics(t *testing.T) {
	known := documented(t)
	for name, text := range expressions(t) {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var used []string
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			selector, isSelector := node.(*parser.VectorSelector)
			if !isSelector || slices.Contains(libraryMetrics, selector.Name) {
				return nil
			}
			used = append(used, selector.Name)
			all, exists := known[selector.Name]
			if !exists {
				t.Errorf("%s: there is no metric %s", name, selector.Name)
			}
			for _, m := range selector.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(all, m.Name) {
					t.Errorf("%s: %s has no label %s", name, selector.Name, m.Name)
				}
			}
			return nil
		})
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			aggregate, isAggregate := node.(*parser.AggregateExpr)
			if !isAggregate {
				return nil
			}
			for _, label := range aggregate.Grouping {
				if aggregate.Without && slices.Contains(targetLabels, label) {
					continue
				}
				for _, metric := range used {
					if !slices.Contains(known[metric], label) {
						t.Errorf("%s: %s has no label %s", name, metric, label)
					}
				}
			}
			return nil
		})
	}
}

// TestEveryAlertHasARunbook finds the section of each alert in docs/operations.md.
func TestEveryAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, o := range render(t, "metrics.alerts.enabled=true") {
		if o.GetKind() != "PrometheusRule" {
			continue
		}
		for _, rule := range rulesOf(t, o) {
			alerts = append(alerts, rule.Alert)
			if want := "https://github.com/espalier-dev/espalier/blob/main/docs/operations.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
				t.Errorf("runbook_url of %s is %s", rule.Alert, rule.Annotations["runbook_url"])
			}
			if !strings.Contains(string(text), "\n### "+rule.Alert+"\n") {
				t.Errorf("docs/operations.md has no section %s", rule.Alert)
			}
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary or no severity", rule.Alert)
			}
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (Espalier\w+)$`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(alerts, section[1]) {
			t.Errorf("docs/operations.md has a section for %s, which is no alert", section[1])
		}
	}
}
