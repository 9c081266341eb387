package server

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

func TestMissingPermissionsAreCounted(t *testing.T) {
	secrets := []rbac.Permission{{Verb: "get", Resource: "secrets", Name: "a"}, {Verb: "get", Resource: "secrets", Name: "b"}}
	missing := []missingPermissions{
		{User: "controllers", Needs: rbac.PermissionsFor("kro.run", "resourcegraphdefinitions/status", "update")},
		{User: "builder", Definition: "site", Needs: append(rbac.PermissionsFor("", "pods", "list", "watch"), secrets...)},
		{User: "controllers", Namespace: "team", Definition: "site", Needs: rbac.PermissionsFor("", "pods", "list")},
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newPermissionCollector(func() []missingPermissions { return missing }))
	gather := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() { // in the order of their names
					labels = append(labels, l.GetValue())
				}
				got[f.GetName()+" "+strings.Join(labels, ",")] = m.GetGauge().GetValue()
			}
		}
		return got
	}
	const name = "espalier_missing_permissions "
	want := map[string]float64{
		name + ",kro.run,,resourcegraphdefinitions/status,controllers,update": 1,
		name + "site,,,pods,builder,list":                                     1,
		name + "site,,,pods,builder,watch":                                    1,
		name + "site,,,secrets,builder,get":                                   2,
		name + "site,,team,pods,controllers,list":                             1,
	}
	if got := gather(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	missing = nil
	if got := gather(); len(got) > 0 {
		t.Errorf("where nothing is missing: %v", got)
	}
}
