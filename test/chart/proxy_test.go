package chart

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/cmd/espalier/chart"
)

// TestTheValuesForAProxySuffice renders the chart with the values of the page, and decides with the variables of each pod as Go does.
func TestTheValuesForAProxySuffice(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Proxies\n")
	_, section, _ = strings.Cut(section, "```yaml\n")
	values, _, _ := strings.Cut(section, "```\n")
	all, err := chart.Render(chart.Options{Namespace: namespace, Values: [][]byte{[]byte(values)}, Set: append([]string{image}, everything...)})
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, o := range all {
		if o.GetKind() != "Deployment" {
			continue
		}
		pods++
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		variables := map[string]string{}
		for _, v := range d.Spec.Template.Spec.Containers[0].Env {
			variables[v.Name] = v.Value
		}
		choose := (&httpproxy.Config{HTTPSProxy: variables["HTTPS_PROXY"], NoProxy: variables["NO_PROXY"]}).ProxyFunc()
		for host, want := range map[string]string{
			"ec2.eu-central-1.amazonaws.com": "http://proxy.example.com:3128", "10.96.0.1": "", "collector.monitoring.svc:4317": "", "function-name.crossplane-system:9443": "",
		} {
			got, err := choose(&url.URL{Scheme: "https", Host: host})
			if err != nil || got == nil && want != "" || got != nil && got.String() != want {
				t.Errorf("%s reaches %s through %v, not %q: %v", d.Name, host, got, want, err)
			}
		}
	}
	if pods != 3 {
		t.Errorf("there are %d Deployments", pods)
	}
}
