package hook

import (
	"context"
	"fmt"
	"testing"
)

func TestBrokersAreReadByTheirAuthentication(t *testing.T) {
	const arn = "arn:aws:kafka:eu-central-1:1:cluster/c/u"
	f, config := newFake(t, map[string][]string{"GET /v1/clusters/" + arn + "/bootstrap-brokers": {
		`{"bootstrapBrokerStringTls":"b-1:9094,b-2:9094","bootstrapBrokerStringSaslIam":"b-1:9098","bootstrapBrokerString":""}`,
	}})
	got, err := readBrokers(context.Background(), config, target(arn))
	if text := fmt.Sprintf("%s", got); err != nil || text != "map[bootstrapBrokersIAM:b-1:9098 bootstrapBrokersTLS:b-1:9094,b-2:9094]" {
		t.Errorf("%s, %v, calls %s", text, err, f.called())
	}
	if _, err := readBrokers(context.Background(), config, target("other")); err == nil {
		t.Error("an error is no error")
	}
}
