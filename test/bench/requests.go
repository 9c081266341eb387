package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// request is the verb as the API server's metric has it, where APPLY is a server-side apply, and
// the resource with its subresource.
type request struct{ verb, resource string }

// requests are numbers of requests.
type requests map[request]int

// housekeeping are resources that the API server and its own controllers use, whether or not
// Espalier runs.
var housekeeping = map[string]bool{
	"leases": true, "endpoints": true, "endpointslices": true, "services": true, "namespaces": true,
	"apiservices": true, "flowschemas": true, "prioritylevelconfigurations": true, "servicecidrs": true, "ipaddresses": true,
	"serviceaccounts": true, "clusterroles": true, "clusterrolebindings": true, "roles": true, "rolebindings": true,
}

var (
	sample = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	label  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// parseRequests reads the API server's metrics. Watches are not counted, and neither are requests
// that concern no resource: metrics, discovery and schemas.
func parseRequests(metrics []byte) (requests, error) {
	out := requests{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("apiserver_request_total{")) {
			continue // most of some ten thousand lines
		}
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[1], -1) {
			labels[l[1]] = l[2]
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the API server: %q: %w", m[0], err)
		}
		r := request{labels["verb"], labels["resource"]}
		if r.resource == "" || r.verb == "WATCH" || r.verb == "CONNECT" || housekeeping[r.resource] {
			continue
		}
		if sub := labels["subresource"]; sub != "" {
			r.resource += "/" + sub
		}
		out[r] += int(n)
	}
	return out, lines.Err()
}

// minus returns the difference to other.
func (r requests) minus(other requests) requests {
	out := requests{}
	for k, n := range r {
		if d := n - other[k]; d != 0 {
			out[k] = d
		}
	}
	for k, n := range other {
		if _, known := r[k]; !known && n != 0 {
			out[k] = -n
		}
	}
	return out
}

// of is the number of requests for which the predicate is true.
func (r requests) of(which func(request) bool) int {
	sum := 0
	for k, n := range r {
		if which(k) {
			sum += n
		}
	}
	return sum
}

// work reports whether a request is counted against a budget: all are except for those of events,
// which are written in the background.
func work(r request) bool { return r.resource != "events" }

func writes(r request) bool {
	return work(r) && r.verb != "GET" && r.verb != "LIST" && !strings.HasPrefix(r.resource, "selfsubject") // an access review stores nothing
}

// plus returns the sum.
func (r requests) plus(other requests) requests {
	out := maps.Clone(r)
	if out == nil {
		out = requests{}
	}
	for k, n := range other {
		out[k] += n
	}
	return out
}
