package farm

import java.nio.ByteBuffer
import java.nio.ByteOrder

/** An input or output: [type] is `float32`, `int64`, ..., and a buffer for it has [bytes] bytes, row-major. */
data class Tensor(val name: String, val type: String, val shape: List<Int>, val bytes: Int)

/**
 * A plan of farm, loaded. Calls on one object must not overlap, so use it from one thread, and not the main one.
 *
 * [tuned] and [kernels] are the files that `farm tune` collects for [soc]; with them the first run is fast too.
 * Every call throws [IllegalStateException] with what went wrong.
 */
class Farmrt @JvmOverloads constructor(
    plan: String,
    data: String,
    tuned: String? = null,
    kernels: String? = null,
    soc: String? = null,
) : AutoCloseable {
    private var handle: Long = create(plan, data, tuned, kernels, soc)

    val inputs: List<Tensor> = tensors(handle, true).map(::parsed)
    val outputs: List<Tensor> = tensors(handle, false).map(::parsed)

    /** A buffer for a tensor, outside Java's heap. */
    fun buffer(tensor: Tensor): ByteBuffer = ByteBuffer.allocateDirect(tensor.bytes).order(ByteOrder.nativeOrder())

    /** Copies a direct buffer of the tensor's bytes in. */
    fun input(tensor: Tensor, values: ByteBuffer) = write(open(), tensor.name, values)

    /** Runs the model once and waits. */
    fun run() = execute(open())

    /** Copies an output into a buffer, by default a new one. */
    @JvmOverloads
    fun output(tensor: Tensor, values: ByteBuffer = buffer(tensor)): ByteBuffer {
        read(open(), tensor.name, values)
        return values
    }

    override fun close() {
        if (handle != 0L) destroy(handle)
        handle = 0L
    }

    private fun open(): Long = handle.also { check(it != 0L) { "the model is closed" } }

    private fun parsed(line: String): Tensor {
        val (type, bytes, shape, name) = line.split(" ", limit = 4)
        return Tensor(name, type, shape.split("x").filter(String::isNotEmpty).map(String::toInt), bytes.toInt())
    }

    private external fun create(plan: String, data: String, tuned: String?, kernels: String?, soc: String?): Long
    private external fun tensors(handle: Long, inputs: Boolean): Array<String>
    private external fun write(handle: Long, name: String, values: ByteBuffer)
    private external fun execute(handle: Long)
    private external fun read(handle: Long, name: String, values: ByteBuffer)
    private external fun destroy(handle: Long)

    private companion object {
        init {
            System.loadLibrary("farmrt_jni")
        }
    }
}
