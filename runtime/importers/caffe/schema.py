"""The fields of Caffe's files, as far as a network at inference needs them, in the notation of `descriptors`.

Numbers and defaults are those of Caffe 1.0, of its SSD branch from 200 on, and those that later forks agree on. Fields
that only training reads are here where deployed networks carry them, so that they are known and not reported. What a
.prototxt says in text and what a .caffemodel says in binary are read apart: of the latter only names and weights count.
"""

from runtime.importers.caffe.descriptors import message_classes

_SHARED = """
BlobShape
  1 dim int64*
Engine: DEFAULT=0 CAFFE=1 CUDNN=2
Phase: TRAIN=0 TEST=1
VarianceNorm: FAN_IN=0 FAN_OUT=1 AVERAGE=2
FillerParameter
  1 type string=constant
  2 value float=0
  3 min float=0
  4 max float=1
  5 mean float=0
  6 std float=1
  7 sparse int32=-1
  8 variance_norm VarianceNorm=FAN_IN
NetState
  1 phase Phase=TEST
  2 level int32=0
  3 stage string*
NetStateRule
  1 phase Phase
  2 min_level int32
  3 max_level int32
  4 stage string*
  5 not_stage string*
ShareMode: STRICT=0 PERMISSIVE=1
ParamSpec
  1 name string
  2 share_mode ShareMode
  3 lr_mult float=1
  4 decay_mult float=1
"""

_WINDOWS = """
ConvolutionParameter
  1 num_output uint32
  2 bias_term bool=true
  3 pad uint32*
  4 kernel_size uint32*
  5 group uint32=1
  6 stride uint32*
  7 weight_filler FillerParameter
  8 bias_filler FillerParameter
  9 pad_h uint32
  10 pad_w uint32
  11 kernel_h uint32
  12 kernel_w uint32
  13 stride_h uint32
  14 stride_w uint32
  15 engine Engine=DEFAULT
  16 axis int32=1
  17 force_nd_im2col bool=false
  18 dilation uint32*
PoolMethod: MAX=0 AVE=1 STOCHASTIC=2
RoundMode: CEIL=0 FLOOR=1
PoolingParameter
  1 pool PoolMethod=MAX
  2 kernel_size uint32
  3 stride uint32=1
  4 pad uint32=0
  5 kernel_h uint32
  6 kernel_w uint32
  7 stride_h uint32
  8 stride_w uint32
  9 pad_h uint32=0
  10 pad_w uint32=0
  11 engine Engine=DEFAULT
  12 global_pooling bool=false
  13 round_mode RoundMode=CEIL
  14 ceil_mode bool=true
InnerProductParameter
  1 num_output uint32
  2 bias_term bool=true
  3 weight_filler FillerParameter
  4 bias_filler FillerParameter
  5 axis int32=1
  6 transpose bool=false
"""

_ELEMENTWISE = """
ReLUParameter
  1 negative_slope float=0
  2 engine Engine=DEFAULT
PReLUParameter
  1 filler FillerParameter
  2 channel_shared bool=false
ELUParameter
  1 alpha float=1
SigmoidParameter
  1 engine Engine=DEFAULT
TanHParameter
  1 engine Engine=DEFAULT
PowerParameter
  1 power float=1
  2 scale float=1
  3 shift float=0
ExpParameter
  1 base float=-1
  2 scale float=1
  3 shift float=0
LogParameter
  1 base float=-1
  2 scale float=1
  3 shift float=0
ThresholdParameter
  1 threshold float=0
SwishParameter
  1 beta float=1
ClipParameter
  1 min float
  2 max float
DropoutParameter
  1 dropout_ratio float=0.5
  2 scale_train bool=true
EltwiseOp: PROD=0 SUM=1 MAX=2
EltwiseParameter
  1 operation EltwiseOp=SUM
  2 coeff float*
  3 stable_prod_grad bool=true
ScaleParameter
  1 axis int32=1
  2 num_axes int32=1
  3 filler FillerParameter
  4 bias_term bool=false
  5 bias_filler FillerParameter
BiasParameter
  1 axis int32=1
  2 num_axes int32=1
  3 filler FillerParameter
"""

_NORMALIZATION = """
BatchNormParameter
  1 use_global_stats bool
  2 moving_average_fraction float=0.999
  3 eps float=1e-5
NormRegion: ACROSS_CHANNELS=0 WITHIN_CHANNEL=1
LRNParameter
  1 local_size uint32=5
  2 alpha float=1
  3 beta float=0.75
  4 norm_region NormRegion=ACROSS_CHANNELS
  5 k float=1
  6 engine Engine=DEFAULT
MVNParameter
  1 normalize_variance bool=true
  2 across_channels bool=false
  3 eps float=1e-9
NormalizeParameter
  1 across_spatial bool=true
  2 scale_filler FillerParameter
  3 channel_shared bool=true
  4 eps float=1e-10
SoftmaxParameter
  1 engine Engine=DEFAULT
  2 axis int32=1
"""

_MOVEMENT = """
ConcatParameter
  1 concat_dim uint32=1
  2 axis int32=1
SliceParameter
  1 slice_dim uint32=1
  2 slice_point uint32*
  3 axis int32=1
ReshapeParameter
  1 shape BlobShape
  2 axis int32=0
  3 num_axes int32=-1
FlattenParameter
  1 axis int32=1
  2 end_axis int32=-1
CropParameter
  1 axis int32=2
  2 offset uint32*
TileParameter
  1 axis int32=1
  2 tiles int32
ReductionOp: SUM=1 ASUM=2 SUMSQ=3 MEAN=4
ReductionParameter
  1 operation ReductionOp=SUM
  2 axis int32=0
  3 coeff float=1
ArgMaxParameter
  1 out_max_val bool=false
  2 top_k uint32=1
  3 axis int32
PermuteParameter
  1 order uint32*
ShuffleChannelParameter
  1 group uint32=1
InterpParameter
  1 height int32=0
  2 width int32=0
  3 zoom_factor int32=1
  4 shrink_factor int32=1
  5 pad_beg int32=0
  6 pad_end int32=0
UpsampleParameter
  1 scale int32=2
InputParameter
  1 shape BlobShape*
"""

_DETECTION = """
PriorBoxParameter
  1 min_size float*
  2 max_size float*
  3 aspect_ratio float*
  4 flip bool=true
  5 clip bool=false
  6 variance float*
  7 img_size uint32
  8 img_h uint32
  9 img_w uint32
  10 step float
  11 step_h float
  12 step_w float
  13 offset float=0.5
NonMaximumSuppressionParameter
  1 nms_threshold float=0.3
  2 top_k int32
  3 eta float=1
SaveOutputParameter
  1 output_directory string
  2 output_name_prefix string
  3 output_format string
  4 label_map_file string
  5 name_size_file string
  6 num_test_image uint32
CodeType: CORNER=1 CENTER_SIZE=2 CORNER_SIZE=3
DetectionOutputParameter
  1 num_classes uint32
  2 share_location bool=true
  3 background_label_id int32=0
  4 nms_param NonMaximumSuppressionParameter
  5 save_output_param SaveOutputParameter
  6 code_type CodeType=CORNER
  7 keep_top_k int32=-1
  8 variance_encoded_in_target bool=false
  9 confidence_threshold float
  10 visualize bool=false
  11 visualize_threshold float
  12 save_file string
"""

# What only training reads: known, so that a network that still carries it is read, and its layers are left out.
_TRAINING = """
TransformationParameter
  1 scale float=1
  2 mirror bool=false
  3 crop_size uint32=0
  4 mean_file string
  5 mean_value float*
  6 force_color bool=false
  7 force_gray bool=false
Database: LEVELDB=0 LMDB=1
DataParameter
  1 source string
  2 scale float=1
  3 mean_file string
  4 batch_size uint32
  5 crop_size uint32=0
  6 mirror bool=false
  7 rand_skip uint32=0
  8 backend Database=LEVELDB
  9 force_encoded_color bool=false
  10 prefetch uint32=4
ImageDataParameter
  1 source string
  2 scale float=1
  3 mean_file string
  4 batch_size uint32=1
  5 crop_size uint32=0
  6 mirror bool=false
  7 rand_skip uint32=0
  8 shuffle bool=false
  9 new_height uint32=0
  10 new_width uint32=0
  11 is_color bool=true
  12 root_folder string
DummyDataParameter
  1 data_filler FillerParameter*
  2 num uint32*
  3 channels uint32*
  4 height uint32*
  5 width uint32*
  6 shape BlobShape*
HDF5DataParameter
  1 source string
  2 batch_size uint32
  3 shuffle bool=false
HDF5OutputParameter
  1 file_name string
MemoryDataParameter
  1 batch_size uint32
  2 channels uint32
  3 height uint32
  4 width uint32
NormalizationMode: FULL=0 VALID=1 BATCH_SIZE=2 NONE=3
LossParameter
  1 ignore_label int32
  2 normalize bool
  3 normalization NormalizationMode=VALID
AccuracyParameter
  1 top_k uint32=1
  2 axis int32=1
  3 ignore_label int32
Norm: L1=1 L2=2
HingeLossParameter
  1 norm Norm=L1
InfogainLossParameter
  1 source string
  2 axis int32=1
ContrastiveLossParameter
  1 margin float=1
  2 legacy_version bool=false
"""

# Parameters of layers: number in V1LayerParameter (0: not there), number in LayerParameter, field, type.
_PARAMETERS = """
36 100 transform_param TransformationParameter
42 101 loss_param LossParameter
27 102 accuracy_param AccuracyParameter
23 103 argmax_param ArgMaxParameter
9 104 concat_param ConcatParameter
40 105 contrastive_loss_param ContrastiveLossParameter
10 106 convolution_param ConvolutionParameter
11 107 data_param DataParameter
12 108 dropout_param DropoutParameter
26 109 dummy_data_param DummyDataParameter
24 110 eltwise_param EltwiseParameter
41 111 exp_param ExpParameter
13 112 hdf5_data_param HDF5DataParameter
14 113 hdf5_output_param HDF5OutputParameter
29 114 hinge_loss_param HingeLossParameter
15 115 image_data_param ImageDataParameter
16 116 infogain_loss_param InfogainLossParameter
17 117 inner_product_param InnerProductParameter
18 118 lrn_param LRNParameter
22 119 memory_data_param MemoryDataParameter
34 120 mvn_param MVNParameter
19 121 pooling_param PoolingParameter
21 122 power_param PowerParameter
30 123 relu_param ReLUParameter
38 124 sigmoid_param SigmoidParameter
39 125 softmax_param SoftmaxParameter
31 126 slice_param SliceParameter
37 127 tanh_param TanHParameter
25 128 threshold_param ThresholdParameter
0 131 prelu_param PReLUParameter
0 133 reshape_param ReshapeParameter
0 134 log_param LogParameter
0 135 flatten_param FlattenParameter
0 136 reduction_param ReductionParameter
0 138 tile_param TileParameter
0 139 batch_norm_param BatchNormParameter
0 140 elu_param ELUParameter
0 141 bias_param BiasParameter
0 142 scale_param ScaleParameter
0 143 input_param InputParameter
0 144 crop_param CropParameter
0 147 swish_param SwishParameter
0 148 clip_param ClipParameter
0 202 permute_param PermuteParameter
0 203 prior_box_param PriorBoxParameter
0 204 detection_output_param DetectionOutputParameter
0 206 norm_param NormalizeParameter
0 301 interp_param InterpParameter
0 302 upsample_param UpsampleParameter
0 303 shuffle_channel_param ShuffleChannelParameter
"""


def _parameters(generation: int) -> str:
    """The lines of `_PARAMETERS` for V1LayerParameter (0) or LayerParameter (1)."""
    rows = [line.split() for line in _PARAMETERS.split("\n") if line]
    return "".join(f"  {row[generation]} {row[2]} {row[3]}\n" for row in rows if row[generation] != "0")


_LAYER = f"""
LayerParameter
  1 name string
  2 type string
  3 bottom string*
  4 top string*
  5 loss_weight float*
  6 param ParamSpec*
  8 include NetStateRule*
  9 exclude NetStateRule*
  10 phase Phase
  11 propagate_down bool*
{_parameters(1)}"""

_LAYER_TYPE = """
LayerType: NONE=0 ACCURACY=1 BNLL=2 CONCAT=3 CONVOLUTION=4 DATA=5 DROPOUT=6 EUCLIDEAN_LOSS=7 FLATTEN=8 HDF5_DATA=9 \
HDF5_OUTPUT=10 IM2COL=11 IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15 MULTINOMIAL_LOGISTIC_LOSS=16 \
POOLING=17 RELU=18 SIGMOID=19 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 TANH=23 WINDOW_DATA=24 ELTWISE=25 POWER=26 \
SIGMOID_CROSS_ENTROPY_LOSS=27 HINGE_LOSS=28 MEMORY_DATA=29 ARGMAX=30 THRESHOLD=31 DUMMY_DATA=32 SLICE=33 MVN=34 \
ABSVAL=35 SILENCE=36 CONTRASTIVE_LOSS=37 EXP=38 DECONVOLUTION=39
"""

_OLD_LAYERS = f"""
V0LayerParameter
  1 name string
  2 type string
  3 num_output uint32
  4 biasterm bool=true
  5 weight_filler FillerParameter
  6 bias_filler FillerParameter
  7 pad uint32=0
  8 kernelsize uint32
  9 group uint32=1
  10 stride uint32=1
  11 pool PoolMethod=MAX
  12 dropout_ratio float=0.5
  13 local_size uint32=5
  14 alpha float=1
  15 beta float=0.75
  16 source string
  17 scale float=1
  18 meanfile string
  19 batchsize uint32
  20 cropsize uint32=0
  21 mirror bool=false
  22 k float=1
  51 blobs_lr float*
  52 weight_decay float*
  53 rand_skip uint32=0
  65 concat_dim uint32=1
V1LayerParameter
  1 layer V0LayerParameter
  2 bottom string*
  3 top string*
  4 name string
  5 type LayerType
  7 blobs_lr float*
  8 weight_decay float*
  32 include NetStateRule*
  33 exclude NetStateRule*
  35 loss_weight float*
  1001 param string*
{_parameters(0)}"""

_NET = """
NetParameter
  1 name string
  2 layers V1LayerParameter*
  3 input string*
  4 input_dim int32*
  5 force_backward bool=false
  6 state NetState
  7 debug_info bool=false
  8 input_shape BlobShape*
  100 layer LayerParameter*
"""

# Numbers of a packed field are length-delimited on the wire, as bytes are: so they are read without a copy for each.
_WEIGHTS = """
BlobShape
  1 dim int64*
BlobProto
  1 num int32
  2 channels int32
  3 height int32
  4 width int32
  5 data bytes*
  6 diff bytes*
  7 shape BlobShape
  8 double_data bytes*
  9 double_diff bytes*
V0LayerParameter
  1 name string
  50 blobs BlobProto*
V1LayerParameter
  1 layer V0LayerParameter
  4 name string
  6 blobs BlobProto*
LayerParameter
  1 name string
  7 blobs BlobProto*
NetParameter
  1 name string
  2 layers V1LayerParameter*
  100 layer LayerParameter*
"""

_TEXT = (_SHARED, _WINDOWS, _ELEMENTWISE, _NORMALIZATION, _MOVEMENT, _DETECTION, _TRAINING, _LAYER, _LAYER_TYPE)
_CLASSES = message_classes("\n".join((*_TEXT, _OLD_LAYERS, _NET)))

NetParameter = _CLASSES["NetParameter"]
LayerParameter = _CLASSES["LayerParameter"]
WeightsParameter = message_classes(_WEIGHTS)["NetParameter"]
