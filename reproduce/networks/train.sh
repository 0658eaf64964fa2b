#!/bin/sh
# Trains the fifteen small networks of `reproduce fusion`: from widths and rows too few to be good
# to nearly perfect, on three sets. Needs a Python with PyTorch and ONNX; some twenty minutes on a core.
#
#     reproduce/networks/train.sh DATA MODELS
set -e
data=$(realpath "$1") models=$(realpath "$2")
cd "$(dirname "$0")/../../testmodels"

network() {
	name=$1 set=$2
	shift 2
	python3 train.py --data "$data/${set}_train.npz" --test "$data/${set}_test.npz" --classes 4,1,7,5,3 --out "$models/$name.onnx" "$@"
}

network mnist_resnet_few mnist --arch resnet --rows 2000 --epochs 4
network mnist_vgg11 mnist --arch vgg11 --width .125 --epochs 2
network mnist_preact mnist --arch preact18 --width .125 --epochs 2
network mnist_vit mnist --arch vit --epochs 3 --lr 1e-3
network fashion_resnet fashion --arch resnet --epochs 3
network fashion_vgg11_few fashion --arch vgg11 --width .125 --rows 3000 --epochs 4
network fashion_preact_few fashion --arch preact18 --width .125 --rows 6000 --epochs 3
network fashion_vgg11 fashion --arch vgg11 --width .25 --epochs 2
network fashion_vit fashion --arch vit --width .67 --epochs 4 --lr 1e-3
network cifar_resnet_few cifar10 --arch resnet --rows 4000 --epochs 3
network cifar_resnet cifar10 --arch resnet --epochs 6
network cifar_vgg11 cifar10 --arch vgg11 --width .25 --epochs 4
network cifar_vgg13_few cifar10 --arch vgg13 --width .125 --rows 8000 --epochs 4
network cifar_preact cifar10 --arch preact18 --width .25 --epochs 4
network cifar_vit cifar10 --arch vit --epochs 8 --lr 1e-3
