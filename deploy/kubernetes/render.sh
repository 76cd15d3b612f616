#!/bin/sh
# Writes orders.yaml anew: the chart with its own values, for those who do not use Helm. Run it after any change of the chart.
set -eu
export LC_ALL=C  # the order of the files
cd "$(dirname "$0")/../helm/kstreams-worker"
rendered=$(helm template orders . --kube-version 1.33.0)
digest=$(cat Chart.yaml values.yaml templates/* | sha256sum | cut -d ' ' -f 1)
{
    echo "# Three instances of examples/orders.py, each with a volume for its state: kubectl apply -k deploy/kubernetes"
    echo "# Rendered by render.sh from the chart in ../helm (sha256 $digest)."
    echo "# Put your brokers and settings into the ConfigMap, your image and topology into the StatefulSet. Secrets such as"
    echo "# KSTREAMS_SASL_PASSWORD: kubectl create secret generic orders-credentials --from-literal=KSTREAMS_SASL_PASSWORD=..."
    echo "$rendered"
} > ../../kubernetes/orders.yaml
