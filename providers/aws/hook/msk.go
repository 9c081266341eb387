package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kafka"
)

// readBrokers returns the addresses of the brokers of a cluster, a list for each way to authenticate, with commas.
func readBrokers(ctx context.Context, config aws.Config, t Target) (map[string][]byte, error) {
	found, err := kafka.NewFromConfig(config).GetBootstrapBrokers(ctx, &kafka.GetBootstrapBrokersInput{ClusterArn: &t.Identifier})
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for key, brokers := range map[string]*string{
		"bootstrapBrokers":                     found.BootstrapBrokerString,
		"bootstrapBrokersTLS":                  found.BootstrapBrokerStringTls,
		"bootstrapBrokersSCRAM":                found.BootstrapBrokerStringSaslScram,
		"bootstrapBrokersIAM":                  found.BootstrapBrokerStringSaslIam,
		"publicBootstrapBrokersTLS":            found.BootstrapBrokerStringPublicTls,
		"publicBootstrapBrokersSCRAM":          found.BootstrapBrokerStringPublicSaslScram,
		"publicBootstrapBrokersIAM":            found.BootstrapBrokerStringPublicSaslIam,
		"vpcConnectivityBootstrapBrokersTLS":   found.BootstrapBrokerStringVpcConnectivityTls,
		"vpcConnectivityBootstrapBrokersSCRAM": found.BootstrapBrokerStringVpcConnectivitySaslScram,
		"vpcConnectivityBootstrapBrokersIAM":   found.BootstrapBrokerStringVpcConnectivitySaslIam,
	} {
		if text := aws.ToString(brokers); text != "" {
			out[key] = []byte(text)
		}
	}
	return out, nil
}
