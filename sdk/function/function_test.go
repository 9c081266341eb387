package function_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func passThrough(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return function.To(request), nil
}

func TestAResponseStartsFromTheRequest(t *testing.T) {
	got := function.To(&fnv1.RunFunctionRequest{
		Meta:    &fnv1.RequestMeta{Tag: "tag"},
		Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"db": {}}},
	})
	if got.GetMeta().GetTag() != "tag" || got.GetDesired().GetResources()["db"] == nil {
		t.Errorf("want the tag and the desired state of the request, got %v", got)
	}
	if function.To(&fnv1.RunFunctionRequest{}).GetDesired() == nil {
		t.Error("want an empty desired state, got nil")
	}
}

func TestRunValidatesItsArguments(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	cases := map[string]struct {
		arguments []string
		want      string // in the error; "" for none
		out       string
	}{
		"insecure":                 {[]string{"--insecure", "--address=127.0.0.1:0", "--debug"}, "", ""},
		"TLS without certificates": {[]string{"--address=127.0.0.1:0", "--tls-certs-dir=/nowhere"}, "/nowhere/tls.crt", ""},
		"an invalid address":       {[]string{"--insecure", "--address=127.0.0.1:x"}, "unknown port", ""},
		"an unknown flag":          {[]string{"--what"}, "-what", "-tls-certs-dir"},
		"help":                     {[]string{"--help"}, flag.ErrHelp.Error(), "-address"},
	}
	for name, tc := range cases {
		ctx := canceled
		if tc.want == "unknown port" {
			ctx = t.Context()
		}
		out := &strings.Builder{}
		err := function.Run(ctx, passThrough, tc.arguments, out)
		if tc.want == "" && err != nil && !errors.Is(err, context.Canceled) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v", name, err)
		}
		if !strings.Contains(out.String(), tc.out) {
			t.Errorf("%s: got %s", name, out)
		}
	}
}
