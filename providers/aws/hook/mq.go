package hook

// brokerConnection returns the first address of each protocol of a broker.
func brokerConnection(t Target) map[string][]byte {
	out := map[string][]byte{}
	for key, property := range map[string]string{
		"amqpEndpoint": "AmqpEndpoints", "mqttEndpoint": "MqttEndpoints", "openWireEndpoint": "OpenWireEndpoints",
		"stompEndpoint": "StompEndpoints", "wssEndpoint": "WssEndpoints", "consoleURL": "ConsoleURLs",
	} {
		if list, ok := t.Properties[property].([]any); ok && len(list) > 0 {
			if address := scalar(list[0]); address != "" {
				out[key] = []byte(address)
			}
		}
	}
	return out
}
