package graph_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestADefinitionIsServedWithoutTheKindsThatItDoesNotFit(t *testing.T) {
	const (
		head    = "spec:\n  schema: {kind: Salvaged, apiVersion: v1, status: {id: \"${subnet.status.subnetID}\"}}\n  resources:\n"
		network = "    - {id: network, template: {apiVersion: cloud.example.com/v1, kind: Network, metadata: {name: a}, spec: {region: %s}}}\n"
		subnet  = "    - {id: subnet, template: {apiVersion: cloud.example.com/v1, kind: Subnet, metadata: {name: a}, spec: {networkID: \"${network.metadata.name}\", size: %s}}}\n"
		plain   = "    - {id: plain, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: %s}}}\n"
	)
	write := func(format, value string) string { return format[:len(format)-len("%s}}}\n")] + value + "}}}\n" }
	cases := map[string]struct {
		definition string
		missing    []string
		nothing    bool
	}{
		"The kind that it doesn't fit is as if it were missing": {head + write(network, "r") + write(subnet, "large") + write(plain, "text"), []string{"Subnet"}, false},
		"With two of them all are":                              {head + write(network, "1") + write(subnet, "large") + write(plain, "text"), []string{"ConfigMap", "Network", "Subnet"}, false},
		"What is wrong in itself stays wrong":                   {head + write(network, "r") + write(subnet, "1") + write(plain, "\"${nobody.x}\""), nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := definition(t, tc.definition)
			g := graph.CompileAccepted(&d.Spec, commonKinds(t, ""))
			if tc.nothing != (g == nil) {
				t.Fatalf("a graph: %t", g != nil)
			}
			if g == nil {
				return
			}
			var missing []string
			for _, gvk := range g.Missing {
				missing = append(missing, gvk.Kind)
			}
			slices.Sort(missing)
			if diff := cmp.Diff(tc.missing, missing); diff != "" {
				t.Error(diff)
			}
		})
	}
}
